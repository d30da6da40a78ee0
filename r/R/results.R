#' Planned results of a release
#'
#' What was planned before the release was made was measured directly, and comes with its interval.
#'
#' @param release The folder of a release.
#' @return A data frame of class `dips_results` with a line for each coefficient: `formula`, `part` (missing, or the
#'   group that it holds for), `term`, `estimate`, `std.error`, `conf.low`, `conf.high`, and `noise`, the share of the
#'   variance that is due to the privacy mechanism. Without lines where nothing was planned.
#' @examples
#' dips_results(system.file("extdata", "release", package = "dipsmith"))
#' @export
dips_results <- function(release) {
  folder <- as_folder(release)
  read_card(folder)
  file <- file.path(folder, "results.json")
  found <- if (file.exists(file)) jsonlite::fromJSON(file, simplifyVector = FALSE) else list(results = list(), level = 0.95)
  lines <- lapply(found$results, function(result) {
    told <- as_frame(result$coefficients, c("name", "estimate", "se", "low", "high", "noise_share"))
    names(told) <- c("term", "estimate", "std.error", "conf.low", "conf.high", "noise")
    cbind(formula = result$formula, part = if (is.null(result$part)) NA_character_ else result$part, told)
  })
  empty <- data.frame(
    formula = character(), part = character(), term = character(), estimate = numeric(), std.error = numeric(),
    conf.low = numeric(), conf.high = numeric(), noise = numeric()
  )
  all <- do.call(rbind, c(list(empty), lines))
  structure(all, class = c("dips_results", "data.frame"), level = found$level)
}

#' @rdname dips_results
#' @param x What `dips_results()` returned.
#' @param digits How many digits are shown.
#' @param ... Unused.
#' @export
print.dips_results <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  if (nrow(x) == 0) {
    cat("Nothing was planned: this release has no direct estimates.\n")
    return(invisible(x))
  }
  groups <- ifelse(is.na(x$part), x$formula, paste0(x$formula, ", ", x$part))
  for (group in unique(groups)) {
    lines <- as.data.frame(x)[groups == group, ]
    cat(group, "\n", sep = "")
    shown <- lines[c("estimate", "std.error", "conf.low", "conf.high", "noise")]
    print(structure(as.matrix(shown), dimnames = list(lines$term, names(shown))), digits = digits)
    cat("\n")
  }
  cat(sprintf("Direct estimates with %g %% intervals; noise: the share of the variance due to privacy.\n",
              100 * attr(x, "level")))
  invisible(x)
}

#' What a release carries
#'
#' @param release The folder of a release.
#' @param ... A formula, or the names of columns.
#' @return A list of class `dips_supports`: `level` is `"measured"`, `"carried"` or `"not carried"`, `reason` says why,
#'   `ask` what to ask the steward for.
#' @examplesIf dipsmith::dips_available() && interactive()
#' release <- system.file("extdata", "release", package = "dipsmith")
#' dips_supports(release, log(pay) ~ sex | agency)
#' dips_supports(release, "sex", "pay")
#' @export
dips_supports <- function(release, ...) {
  asked <- vapply(list(...), as_formula_text, "")
  if (!length(asked)) stop("give a formula, or the names of columns", call. = FALSE)
  structure(class = "dips_supports", run_command("supports", c(as_folder(release), asked)))
}

#' @rdname dips_supports
#' @param x What `dips_supports()` returned.
#' @export
print.dips_supports <- function(x, ...) {
  cat(x$asked, ": ", x$level, "\n", x$reason, "\n", sep = "")
  if (nzchar(x$ask)) cat(x$ask, "\n", sep = "")
  invisible(x)
}

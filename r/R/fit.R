#' Fit a regression to a release, with honest intervals
#'
#' Standard errors and intervals hold the noise of the privacy mechanism beside that of sampling. What the release does
#' not carry is refused with the reason and with what to ask the steward for.
#'
#' @param release The folder of a release, or what [dips_synthesize()] returned.
#' @param formula A formula such as `log(pay) ~ sex + race | agency`, where what follows the bar are fixed effects; or
#'   the same as text.
#' @param family `"auto"`, `"ols"`, `"ridge"`, `"logistic"` or `"firth"`.
#' @param level The level of the intervals.
#' @param reference The levels that others are compared with: `c(sex = "M")`.
#' @param cluster A column by which errors are clustered.
#' @param robust Whether errors are robust (HC1).
#' @param replicates How often the mechanism is run again, if it is.
#' @param seed Finds the same intervals again.
#' @param allow_unsupported Estimates without intervals where there can be none.
#' @return An object of class `dips_fit`, for [coef()], [confint()], [nobs()], [summary()], `tidy()` and `glance()`.
#' @examplesIf dipsmith::dips_available() && interactive()
#' release <- system.file("extdata", "release", package = "dipsmith")
#' fit <- dips_fit(release, log(pay) ~ sex)
#' fit
#' confint(fit)
#' @export
dips_fit <- function(release, formula, family = "auto", level = 0.95, reference = NULL, cluster = NULL, robust = FALSE,
                     replicates = 50, seed = NULL, allow_unsupported = FALSE) {
  text <- as_formula_text(formula)
  found <- run_command("fit", c(
    as_folder(release), text,
    as_options(
      family = family, level = level, reference = as_pairs(reference), cluster = cluster, robust = robust,
      replicates = replicates, seed = seed, allow_unsupported = allow_unsupported
    )
  ))
  columns <- c("term", "estimate", "std_error", "df", "low", "high", "p_value", "noise")
  lines <- as_frame(found$coefficients, columns)
  lines$noise <- lines$noise / lines$std_error^2  # the command tells the variance; its share is what people read
  structure(
    class = "dips_fit",
    list(
      call = match.call(), formula = found$formula, model = found$model, reference = found$reference,
      rows = found$rows, level = found$level, direct = found$direct, rule = found$rule,
      notes = unlist(found$notes), table = lines
    )
  )
}

#' What a fitted regression says
#'
#' @param x,object What [dips_fit()] returned.
#' @param digits How many digits are shown.
#' @param parm Names of coefficients; all when omitted.
#' @param level Unused: the level of the intervals is chosen in [dips_fit()].
#' @param conf.int,conf.level Whether `tidy()` adds the intervals; their level is that of [dips_fit()].
#' @param ... Unused.
#' @return `coef()`: a named vector; `confint()`: a matrix; `tidy()`: a data frame with a line for each coefficient;
#'   `glance()`: a data frame of one line. `noise` is the share of the variance that is due to the privacy mechanism.
#' @name dips_fit-methods
NULL

#' @rdname dips_fit-methods
#' @export
print.dips_fit <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  cat(sprintf("%s on a release under differential privacy\n", sentence(x$model)))
  cat("Formula: ", x$formula, "\n", sep = "")
  if (length(x$reference) && nzchar(x$reference)) cat("Against: ", x$reference, "\n", sep = "")
  cat(sprintf("Observations: %s\n\n", format(x$rows, big.mark = ",")))
  stats::printCoefmat(coefficient_matrix(x), digits = digits, has.Pvalue = TRUE, P.values = TRUE, na.print = "-", ...)
  cat(sprintf("\n%g %% intervals: confint(). Rule: %s\n", 100 * x$level, x$rule))
  for (note in x$notes) cat("Note: ", note, "\n", sep = "")
  invisible(x)
}

sentence <- function(text) paste0(toupper(substr(text, 1, 1)), substring(text, 2))

coefficient_matrix <- function(fit) {
  lines <- fit$table
  matrix(
    c(lines$estimate, lines$std_error, lines$estimate / lines$std_error, lines$p_value), ncol = 4,
    dimnames = list(lines$term, c("Estimate", "Std. Error", "t value", "Pr(>|t|)"))
  )
}

#' @rdname dips_fit-methods
#' @export
summary.dips_fit <- function(object, ...) object

#' @rdname dips_fit-methods
#' @importFrom stats coef
#' @export
coef.dips_fit <- function(object, ...) stats::setNames(object$table$estimate, object$table$term)

#' @rdname dips_fit-methods
#' @importFrom stats confint
#' @export
confint.dips_fit <- function(object, parm = NULL, level = object$level, ...) {
  if (!isTRUE(all.equal(level, object$level))) {
    stop(sprintf("the intervals were made at level %g; fit again with another", object$level), call. = FALSE)
  }
  tails <- paste(format(100 * c((1 - level) / 2, (1 + level) / 2), trim = TRUE), "%")
  lines <- object$table
  ends <- matrix(c(lines$low, lines$high), ncol = 2, dimnames = list(lines$term, tails))
  if (is.null(parm)) ends else ends[parm, , drop = FALSE]
}

#' @rdname dips_fit-methods
#' @importFrom stats nobs
#' @export
nobs.dips_fit <- function(object, ...) object$rows

#' @rdname dips_fit-methods
#' @method tidy dips_fit
#' @export
tidy.dips_fit <- function(x, conf.int = FALSE, conf.level = x$level, ...) {
  lines <- x$table
  told <- data.frame(
    term = lines$term, estimate = lines$estimate, std.error = lines$std_error,
    statistic = lines$estimate / lines$std_error, p.value = lines$p_value, noise = lines$noise
  )
  if (conf.int) {
    ends <- stats::confint(x, level = conf.level)
    told$conf.low <- unname(ends[, 1])
    told$conf.high <- unname(ends[, 2])
  }
  told
}

#' @rdname dips_fit-methods
#' @method glance dips_fit
#' @export
glance.dips_fit <- function(x, ...) {
  data.frame(nobs = x$rows, model = x$model, level = x$level, direct = x$direct, rule = x$rule)
}

#' @importFrom generics tidy
#' @export
generics::tidy

#' @importFrom generics glance
#' @export
generics::glance

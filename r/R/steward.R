#' Make a release
#'
#' The confidential file is read by the command line, never by R. The whole price is charged to the ledger before the
#' first value is read.
#'
#' @param data The confidential file: CSV, Parquet, a folder or the address of a database.
#' @param schema The schema file.
#' @param method The name of a method, such as `"loglinear"`, `"aim"` or `"mst"`.
#' @param ledger The ledger file, in which a budget was granted.
#' @param out The folder to write; must not exist.
#' @param epsilon,rho,delta The price: `epsilon`, `epsilon` with `delta`, or `rho`. Text or a number.
#' @param analyses Formulas of planned analyses.
#' @param sets,each How many sets, and how they are made: `"split"` or `"draw"`.
#' @param rows How many rows to make.
#' @param known_rows How many rows there are, where everybody knows that.
#' @param request The id of this run; it never draws twice.
#' @param format `"parquet"`, `"csv"`, `"dta"` or `"sav"`.
#' @param settings Parameters of the method: `list(trees = 3)`.
#' @return A list of class `dips_release`: `out`, `rows`, `sets`, `guarantee`, `request`, `head`.
#' @seealso [dips_verify()], [dips_read()], [dips_compare()]
#' @export
dips_synthesize <- function(data, schema, method, ledger, out, epsilon = NULL, rho = NULL, delta = NULL,
                            analyses = NULL, sets = 1, each = NULL, rows = NULL, known_rows = NULL, request = NULL,
                            format = "csv", settings = NULL) {
  if (inherits(analyses, "formula")) analyses <- list(analyses)
  found <- run_command("synthesize", c(
    data,
    as_options(
      schema = schema, method = method, ledger = ledger, out = out, epsilon = epsilon, rho = rho, delta = delta,
      analysis = if (length(analyses)) vapply(analyses, as_formula_text, ""), sets = sets, each = each, rows = rows,
      known_rows = known_rows, request = request, format = format, set = as_pairs(settings)
    )
  ))
  structure(class = "dips_release", found)
}

#' @rdname dips_synthesize
#' @param x What `dips_synthesize()` returned.
#' @param ... Unused.
#' @export
print.dips_release <- function(x, ...) {
  cat(sprintf("Release in %s: %s rows, %d set(s)\n%s\n", x$out, format(x$rows, big.mark = ","), x$sets, x$guarantee))
  invisible(x)
}

#' Check a release against its card, and the card against the ledger
#'
#' @param release The folder of a release.
#' @param ledger The ledger file; when omitted, only the release is checked.
#' @return What was checked, invisibly; an error that says what does not agree.
#' @examplesIf dipsmith::dips_available() && interactive()
#' dips_verify(system.file("extdata", "release", package = "dipsmith"))
#' @export
dips_verify <- function(release, ledger = NULL) {
  invisible(run_command("verify", c(as_folder(release), as_options(ledger = ledger))))
}

#' Compare releases with the authentic rows
#'
#' CONFIDENTIAL: the result tells about the authentic rows and must not be released; the look is logged in the ledger.
#'
#' @param data The authentic file.
#' @param releases One to four release folders.
#' @param ledger The ledger file.
#' @param out The folder to write; must not exist.
#' @param analyses Formulas to fit to both.
#' @param by Fit each of them once per level of this column.
#' @param reference The levels that others are compared with.
#' @return A list of class `dips_comparison`: what `comparison.json` in `out` holds.
#' @export
dips_compare <- function(data, releases, ledger, out, analyses = NULL, by = NULL, reference = NULL) {
  if (inherits(analyses, "formula")) analyses <- list(analyses)
  folders <- vapply(if (inherits(releases, "dips_release")) list(releases) else releases, as_folder, "")
  found <- run_command("compare", c(
    data, folders,
    as_options(
      ledger = ledger, out = out, analysis = if (length(analyses)) vapply(analyses, as_formula_text, ""), by = by,
      reference = as_pairs(reference)
    )
  ))
  structure(class = "dips_comparison", found)
}

#' @rdname dips_compare
#' @param x What `dips_compare()` returned.
#' @param ... Unused.
#' @export
print.dips_comparison <- function(x, ...) {
  names <- vapply(x$releases, function(release) release$name, "")
  cat(sprintf("CONFIDENTIAL comparison of '%s' with: %s\n", x$dataset, paste(names, collapse = "; ")))
  cat(sprintf("Look %d at these rows; open %s\n", x$looks, file.path(x$out, "comparison.html")))
  invisible(x)
}

#' Ask whether a finding holds in the confidential rows
#'
#' Writes a question that the steward answers with `dipsmith confirm`, and says how likely a clear answer is.
#'
#' @param release The folder of a release.
#' @param formula The regression.
#' @param claim What is claimed, such as `"sex[F] < 0"`.
#' @param epsilon,rho,delta What the answer may cost.
#' @param out The question file to write; when omitted, only the chances are shown.
#' @param reference The levels that others are compared with.
#' @param by,why Who asks, and why.
#' @return A list of class `dips_question`: the question, its digest, and `power`, what can be expected.
#' @examplesIf dipsmith::dips_available() && interactive()
#' release <- system.file("extdata", "release", package = "dipsmith")
#' dips_ask(release, log(pay) ~ sex, "sex[F] < 0", epsilon = 1)
#' @export
dips_ask <- function(release, formula, claim, epsilon = NULL, rho = NULL, delta = NULL, out = NULL, reference = NULL,
                     by = NULL, why = NULL) {
  structure(class = "dips_question", run_command("ask", c(
    as_folder(release),
    as_options(
      formula = as_formula_text(formula), claim = claim, epsilon = epsilon, rho = rho, delta = delta, out = out,
      reference = as_pairs(reference), by = by, why = why, power = TRUE
    )
  )))
}

#' @rdname dips_ask
#' @param x What `dips_ask()` returned.
#' @param ... Unused.
#' @export
print.dips_question <- function(x, ...) {
  cat(sprintf("Question: %s in %s\n", x$claim, x$formula))
  chances <- x$power$chances
  if (!is.null(chances)) {
    told <- sprintf("%s %.2f", names(chances), unlist(chances))
    cat("If the truth is what the release says:", paste(told, collapse = ", "), "\n")
  }
  if (!is.null(x$out)) cat(sprintf("Written to %s: send it to the steward\n", x$out))
  invisible(x)
}

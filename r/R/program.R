#' The dipsmith command
#'
#' Found in the option `dipsmith.program`, the environment variable `DIPSMITH`, or on the path, in this order.
#'
#' @return `dips_program()`: the path of the command, or an empty string. `dips_available()`: whether there is one.
#' @examples
#' dips_available()
#' @export
dips_program <- function() {
  chosen <- getOption("dipsmith.program", Sys.getenv("DIPSMITH"))
  if (nzchar(chosen)) chosen else unname(Sys.which("dipsmith"))
}

#' @rdname dips_program
#' @export
dips_available <- function() nzchar(dips_program())

# Run a command and return what it prints with --json; its refusals become errors with its own words.
run_command <- function(command, arguments) {
  program <- dips_program()
  if (!nzchar(program)) {
    refuse("the command 'dipsmith' was not found: pip install 'dipsmith[analysis]', or set options(dipsmith.program)", 6)
  }
  # R puts its own libraries first for every program that it starts; Python would load those instead of its own.
  done <- processx::run(
    program, c(command, "--json", arguments),
    error_on_status = FALSE, encoding = "UTF-8", env = c("current", PYTHONUTF8 = "1", LD_LIBRARY_PATH = "")
  )
  said <- strsplit(done$stderr, "\n", fixed = TRUE)[[1]]
  for (note in grep("^dipsmith: note: ", said, value = TRUE)) message(note)
  if (done$status != 0) {
    told <- grep("^dipsmith: error: ", said, value = TRUE)
    refuse(if (length(told)) sub("^dipsmith: error: ", "", told[[1]]) else "it failed without a word", done$status)
  }
  jsonlite::fromJSON(done$stdout, simplifyVector = FALSE)
}

# The error of a refusal; `exit_code` is that of the command line: 2 usage, 3 files, 4 budget, 5 damage, 6 missing parts.
refuse <- function(message, exit_code) {
  stop(structure(
    class = c("dipsmith_error", "error", "condition"),
    list(message = paste("dipsmith:", message), call = NULL, exit_code = exit_code)
  ))
}

# Options of a command from named values: NULL and FALSE are left out, TRUE is a flag, several values repeat it.
as_options <- function(...) {
  given <- list(...)
  unlist(lapply(names(given), function(name) {
    value <- given[[name]]
    flag <- paste0("--", gsub("_", "-", name, fixed = TRUE))
    if (is.null(value) || identical(value, FALSE)) {
      NULL
    } else if (isTRUE(value)) {
      flag
    } else {
      as.vector(rbind(flag, as_text(value)))
    }
  }))
}

# Values as the command line takes them; numbers so that they are read as the same number.
as_text <- function(value) {
  if (is.numeric(value)) {
    vapply(value, function(x) if (x == round(x) && abs(x) < 1e15) format(x, scientific = FALSE) else shortest(x), "")
  } else {
    as.character(value)
  }
}

# The shortest decimals that are read as the same number.
shortest <- function(x) {
  for (digits in 1:17) {
    text <- trimws(formatC(x, digits = digits, format = "g"))
    if (as.numeric(text) == x) break
  }
  text
}

# COLUMN=VALUE, from a named vector or list.
as_pairs <- function(named) if (length(named)) paste0(names(named), "=", as_text(unlist(named))) else NULL

# A formula, or a text, as the command line takes it.
as_formula_text <- function(formula) {
  if (is.character(formula)) return(formula)
  if (!inherits(formula, "formula")) stop("expected a formula, such as log(pay) ~ sex + race | agency", call. = FALSE)
  paste(trimws(deparse(formula, width.cutoff = 500L)), collapse = " ")
}

as_folder <- function(release) {
  path <- if (inherits(release, "dips_release")) release$out else release
  path.expand(path)
}

# Lists of records with equal names as a data frame; a NULL is missing.
as_frame <- function(records, columns) {
  filled <- lapply(columns, function(column) {
    values <- lapply(records, function(record) if (is.null(record[[column]])) NA else record[[column]])
    if (length(values)) unlist(values) else logical()
  })
  names(filled) <- columns
  as.data.frame(filled, stringsAsFactors = FALSE)
}

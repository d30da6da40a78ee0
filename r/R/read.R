#' Read the synthetic rows of a release
#'
#' Columns are what the codebook says: text with listed labels as factors whose levels stand in the codebook's order,
#' whole numbers, numbers, logical values, dates and times (UTC). Where the steward gave a column a title it is the
#' column's `label`.
#'
#' @param release The folder of a release.
#' @param set Which sets to read; all when omitted.
#' @return A data frame, or a list of data frames where there are several sets. The attribute `dips` of each says under
#'   which guarantee it was made.
#' @examples
#' release <- system.file("extdata", "release", package = "dipsmith")
#' people <- dips_read(release)
#' str(people)
#' attr(people, "dips")$guarantee
#' @export
dips_read <- function(release, set = NULL) {
  folder <- as_folder(release)
  card <- read_card(folder)
  sets <- if (is.null(set)) seq_len(card$sets) else set
  book <- data.table::fread(
    file.path(folder, "codebook.csv"), colClasses = "character", na.strings = "", encoding = "UTF-8", data.table = FALSE
  )
  tables <- lapply(sets, function(i) {
    table <- label_columns(read_set(folder, i, book), book)
    attr(table, "dips") <- list(
      dataset = card$dataset, method = card$method, guarantee = guarantee(card), set = i, sets = card$sets
    )
    table
  })
  if (length(tables) == 1) tables[[1]] else tables
}

read_card <- function(folder) {
  file <- file.path(folder, "card.json")
  if (!file.exists(file)) refuse(sprintf("'%s' is not a release: it has no card.json", folder), 3)
  jsonlite::fromJSON(file, simplifyVector = FALSE)
}

# epsilon or rho, unit and neighbours, as the card says them.
guarantee <- function(card) {
  symbol <- if (card$currency == "epsilon") "\u03b5" else "\u03c1"
  sprintf("%s = %s, unit %s, neighbours %s", symbol, shortest(card$units / 1e12), card$unit$text, card$neighbours)
}

# One set as text and numbers; one that is not CSV is written as CSV by the command line first.
read_set <- function(folder, i, book) {
  file <- file.path(folder, sprintf("synthetic-%d.csv", i))
  if (!file.exists(file)) {
    file <- tempfile(fileext = ".csv")
    on.exit(unlink(file))
    run_command("export", c(folder, "--set", as_text(i), "--out", file))
  }
  types <- tapply(book$type, book$column, `[`, 1)
  classes <- ifelse(types %in% c("integer", "number"), "numeric", "character")
  data.table::fread(
    file, colClasses = stats::setNames(as.list(names(types)), NULL) |> split(classes) |> lapply(unlist),
    na.strings = "", encoding = "UTF-8", data.table = FALSE, check.names = FALSE, sep = ",", header = TRUE
  )
}

label_columns <- function(table, book) {
  for (name in names(table)) {
    entries <- book[book$column == name, , drop = FALSE]
    table[[name]] <- typed(table[[name]], entries)
    title <- if (is.null(entries$title)) NA else entries$title[1]
    if (!is.na(title)) attr(table[[name]], "label") <- title
  }
  table
}

typed <- function(values, entries) {
  switch(entries$type[1],
    integer = if (all(abs(values) <= .Machine$integer.max, na.rm = TRUE)) as.integer(values) else values,
    number = values,
    boolean = values == "true",
    date = as.Date(values),
    datetime = as.POSIXct(sub("T", " ", values, fixed = TRUE), tz = "UTC"),
    as_factor(sub("^'([-=+@\t\r])", "\\1", values), entries)
  )
}

# Labels in the codebook's order; public columns that are released as they stand may hold other values too.
as_factor <- function(values, entries) {
  listed <- entries$label[is.na(entries$note) | entries$note != "missing"]
  found <- unique(values[!is.na(values)])
  levels <- if (all(found %in% listed)) listed else sort(found, method = "radix")
  factor(values, levels = levels)
}

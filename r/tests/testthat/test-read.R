release <- system.file("extdata", "release", package = "dipsmith")

test_that("a release is read with factors in the codebook's order, and its guarantee", {
  people <- dips_read(release)
  expect_s3_class(people, "data.frame")
  expect_identical(levels(people$sex), c("F", "M"))
  expect_identical(levels(people$race), c("A", "B", "C", "D", "E"))
  expect_type(people$age, "integer")
  expect_type(people$pay, "double")
  expect_identical(levels(people$supervisory), c("none", "leader", "supervisor"))
  # codes such as 0083 keep their zeros
  expect_true(all(nchar(as.character(people$occupation)) == 4))
  expect_match(attr(people, "dips")$guarantee, "= 1, unit row, neighbours label")
  expect_identical(attr(people$sex, "label"), "Sex")
})

test_that("planned results are those of results.json", {
  results <- dips_results(release)
  stored <- jsonlite::fromJSON(file.path(release, "results.json"), simplifyVector = FALSE)
  first <- stored$results[[1]]$coefficients
  expect_identical(results$estimate, vapply(first, function(c) c$estimate, 0))
  expect_identical(results$conf.high, vapply(first, function(c) c$high, 0))
  expect_output(print(results), "Direct estimates with 95 % intervals")
})

test_that("a folder that is no release is refused in words", {
  expect_error(dips_read(tempdir()), "is not a release", class = "dipsmith_error")
})

test_that("every type of the codebook is read", {
  folder <- withr_folder()
  writeLines(c(
    "\"column\",\"code\",\"label\",\"lower\",\"upper\",\"type\",\"role\",\"note\",\"title\"",
    "\"born\",0,\"2000\",\"2000-01-01\",\"2000-12-31\",\"date\",\"private\",\"\",\"Birth\"",
    "\"seen\",0,\"x\",,,\"datetime\",\"private\",,", "\"ok\",0,\"false\",,,\"boolean\",\"private\",,",
    "\"big\",0,\"x\",,,\"integer\",\"private\",,", "\"town\",0,\"a\",,,\"string\",\"private\",,",
    "\"town\",1,\"(missing)\",,,\"string\",\"private\",\"missing\","
  ), file.path(folder, "codebook.csv"))
  writeLines(c("\"born\",\"seen\",\"ok\",\"big\",\"town\"", "2000-02-29,2000-01-01 10:11:12.000000,true,4000000000,\"a\"",
               ",,,,"), file.path(folder, "synthetic-1.csv"))
  card <- list(sets = 1, dataset = "d", method = "m", currency = "rho", units = 5e11, neighbours = "replace",
               unit = list(text = "row"))
  writeLines(jsonlite::toJSON(card, auto_unbox = TRUE, digits = NA), file.path(folder, "card.json"))
  rows <- dips_read(folder)
  expect_identical(format(rows$born), c("2000-02-29", NA))
  expect_s3_class(rows$seen, "POSIXct")
  expect_identical(rows$ok, c(TRUE, NA))
  expect_identical(rows$big, c(4e9, NA))
  expect_identical(levels(rows$town), "a")
  expect_identical(attr(rows$born, "label"), "Birth")
})

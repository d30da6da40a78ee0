release <- system.file("extdata", "release", package = "dipsmith")
answer <- '{"formula": "log(pay) ~ sex | agency", "model": "least squares", "reference": "sex = M", "rows": 400,
 "level": 0.9, "direct": true, "rule": "planned", "notes": ["one"], "coefficients": [
 {"term": "sex[T.F]", "estimate": -0.1, "std_error": 0.02, "df": 10, "low": -0.14, "high": -0.06, "p_value": 0.001,
  "noise": 0.00032}, {"term": "age", "estimate": 0.3, "std_error": null, "df": null, "low": null, "high": null,
  "p_value": null, "noise": null}]}'

test_that("a formula is handed over as it was written, and the answer looks like a regression", {
  skip_on_os("windows")
  script <- stand_in(answer)
  old <- options(dipsmith.program = script)
  on.exit(options(old))
  fit <- dips_fit(release, log(pay) ~ sex + I(age^2) | agency, level = 0.9, reference = c(sex = "M"), seed = 1)
  expect_identical(asked(script)[1:4], c("fit", "--json", release, "log(pay) ~ sex + I(age^2) | agency"))
  expect_true(all(c("--level", "0.9", "--reference", "sex=M", "--seed", "1") %in% asked(script)))
  expect_identical(coef(fit), c("sex[T.F]" = -0.1, age = 0.3))
  expect_identical(unname(confint(fit)[1, ]), c(-0.14, -0.06))
  expect_error(confint(fit, level = 0.5), "level 0.9")
  expect_identical(nobs(fit), 400L)
  expect_output(print(fit), "Least squares on a release")
  expect_output(print(fit), "\nAgainst: sex = M\n", fixed = TRUE)
  expect_output(print(summary(fit)), "Pr\\(>|t|\\)", fixed = FALSE)
  lines <- tidy(fit, conf.int = TRUE)
  expect_identical(lines$conf.low, c(-0.14, NA))
  expect_equal(lines$noise, c(0.8, NA))
  expect_identical(glance(fit)$nobs, 400L)
})

test_that("broom finds the methods", {
  skip_if_not_installed("broom")
  skip_on_os("windows")
  old <- options(dipsmith.program = stand_in(answer))
  on.exit(options(old))
  fit <- dips_fit(release, "log(pay) ~ sex | agency", level = 0.9)
  expect_identical(broom::tidy(fit)$term, c("sex[T.F]", "age"))
  expect_identical(broom::glance(fit)$direct, TRUE)
})

test_that("a refusal is an error with the command's words and its exit code", {
  skip_on_os("windows")
  old <- options(dipsmith.program = stand_in("", 4L, "dipsmith: error: the budget is used up; grant more"))
  on.exit(options(old))
  refused <- tryCatch(dips_supports(release, "sex"), dipsmith_error = identity)
  expect_identical(refused$exit_code, 4L)
  expect_match(conditionMessage(refused), "the budget is used up")
})

test_that("options are handed over exactly", {
  skip_on_os("windows")
  script <- stand_in('{"out": "r", "rows": 5, "sets": 1, "guarantee": "g", "request": "q", "head": "h"}')
  old <- options(dipsmith.program = script)
  on.exit(options(old))
  made <- dips_synthesize("p.csv", "p.yaml", "forest", "b.db", "r", epsilon = 0.1, delta = 1e-9, rows = 100000,
                          analyses = list(pay ~ sex, "pay ~ age; width 0.1"), settings = list(trees = 3))
  words <- asked(script)
  expect_identical(words[which(words == "--analysis") + 1], c("pay ~ sex", "pay ~ age; width 0.1"))
  expect_identical(words[which(words == "--epsilon") + 1], "0.1")
  expect_identical(words[which(words == "--delta") + 1], "1e-09")
  expect_identical(words[which(words == "--rows") + 1], "100000")
  expect_identical(words[which(words == "--set") + 1], "trees=3")
  expect_output(print(made), "Release in r")
  expect_identical(as_text(1 / 3), "0.3333333333333333")
})

test_that("comparisons and questions print what is next", {
  skip_on_os("windows")
  old <- options(dipsmith.program = stand_in('{"out": "c", "dataset": "p", "looks": 2, "releases": [{"name": "one"}]}'))
  on.exit(options(old))
  expect_output(print(dips_compare("p.csv", "r", "b.db", "c", analyses = pay ~ sex)), "CONFIDENTIAL")
  options(dipsmith.program = stand_in('{"claim": "sex[F] < 0", "formula": "pay ~ sex", "out": "q.yaml",
    "power": {"chances": {"confirmed": 0.9, "contradicted": 0.0, "cannot tell": 0.1}}}'))
  expect_output(print(dips_ask("r", pay ~ sex, "sex[F] < 0", epsilon = 1, out = "q.yaml")), "confirmed 0.90")
  options(dipsmith.program = stand_in('{"asked": "sex", "level": "measured", "reason": "why", "ask": ""}'))
  expect_output(print(dips_supports("r", "sex")), "sex: measured")
})

test_that("the real command gives the same release and the same numbers", {
  skip_if_not(dips_available())
  expect_true(dips_verify(release)$whole)
  fit <- dips_fit(release, log(pay) ~ sex)
  planned <- dips_results(release)
  expect_identical(planned$term, c("Intercept", "sex[T.M]"))
  expect_identical(names(coef(fit)), planned$term)
  expect_equal(unname(coef(fit)), planned$estimate, tolerance = 1e-9)
  expect_equal(tidy(fit)$noise, planned$noise, tolerance = 1e-9)
  expect_output(print(fit), "Against: sex = F", fixed = TRUE)
})

test_that("without the command it is said how to get it", {
  old <- options(dipsmith.program = "")
  on.exit(options(old))
  skip_if(dips_available())
  expect_error(dips_supports("r", "sex"), "pip install", class = "dipsmith_error")
})

library(testthat)
library(dipsmith)

test_check("dipsmith")

# A folder of its own for one test.
withr_folder <- function() {
  folder <- tempfile("release")
  dir.create(folder)
  folder
}

# A command that prints what is stored, and notes what it was asked: what R hands over is tested without Python.
stand_in <- function(answer, status = 0L, error = "") {
  folder <- withr_folder()
  writeLines(answer, file.path(folder, "answer"))
  script <- file.path(folder, "dipsmith")
  writeLines(c(
    "#!/bin/sh", sprintf("for word in \"$@\"; do echo \"$word\"; done > '%s/asked'", folder),
    sprintf("cat '%s/answer'", folder), sprintf("echo '%s' >&2", error), sprintf("exit %d", status)
  ), script)
  Sys.chmod(script, "755")
  script
}

asked <- function(script) readLines(file.path(dirname(script), "asked"))

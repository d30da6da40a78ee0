#' Synthetic tables under differential privacy
#'
#' Researchers start with [dips_read()], [dips_results()], [dips_supports()] and [dips_fit()]; those who hold a
#' confidential table with [dips_synthesize()], [dips_verify()] and [dips_compare()]. All of them but [dips_read()] of a
#' CSV release and [dips_results()] call the `dipsmith` command, which `pip install 'dipsmith[analysis]'` installs.
#'
#' @keywords internal
"_PACKAGE"

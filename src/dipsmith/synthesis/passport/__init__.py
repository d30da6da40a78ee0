"""The passport of a release: the same public facts in the forms that catalogues, archives and registries read."""

"""The catalogue of methods and of kinds of model, found through the entry points `dipsmith.methods`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, cast

from dipsmith.errors import RegistryError, UnsupportedError, UsageError
from dipsmith.methods.method import Method, Model, require_relation
from dipsmith.methods.public_table import PublicTable
from dipsmith.registry import entry_points_of, is_plain_name, load, package_of
from dipsmith.schema import Schema

GROUP = "methods"


class Catalogue(Mapping[str, type[Method]]):
    """The installed methods by the name that the command line and the card use; each is imported when it is asked for."""

    def __getitem__(self, name: str) -> type[Method]:
        if name not in entry_points_of(GROUP):
            raise KeyError(name)
        found: type[Method] = load(GROUP, name)
        if getattr(found, "name", None) != name:
            raise RegistryError(
                f"package {package_of(entry_points_of(GROUP)[name])} registers the method '{getattr(found, 'name', None)}' "
                f"as '{name}'; both names must agree"
            )
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(entry_points_of(GROUP))

    def __len__(self) -> int:
        return len(entry_points_of(GROUP))

    def __contains__(self, name: object) -> bool:
        return name in entry_points_of(GROUP)


METHODS = Catalogue()


def find_method(name: str) -> type[Method]:
    """The class of a method by its name; an unknown one is refused with the names there are."""
    if name not in METHODS:
        raise UsageError(f"method '{name}' is unknown; choose one of: {', '.join(METHODS)}")
    return METHODS[name]


def settings_for(name: str, settings: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
    """The settings of a method, with the private columns as targets where `label` needs them and none are named."""
    named = {f.name for f in fields(find_method(name))}  # type: ignore[arg-type]
    by_label = "targets" in named and schema.neighbours == "label"
    return ({"targets": list(schema.private)} if by_label else {}) | dict(settings)


def make_method(name: str, settings: Mapping[str, Any], schema: Schema) -> Method:
    """A method with its settings; targets default to the private columns."""
    try:
        return find_method(name)(**settings_for(name, settings, schema))
    except TypeError as error:
        # it may lack settings that the relation does not allow: that explains more
        require_relation(cast("Method", find_method(name)), schema.neighbours)
        raise UsageError(f"method {name}: {error}") from None


def public_setting(method: Method | type[Method]) -> str | None:
    """The setting that takes a public table: one to grow on, or to start from; None where a method takes none."""
    return next((f.name for f in fields(method) if f.name in ("public", "prior")), None)  # type: ignore[arg-type]


def given_public(method: Method) -> PublicTable | None:
    """The public table that a method was given."""
    found = getattr(method, public_setting(method) or "", None)
    return found if isinstance(found, PublicTable) else None


def use_public(method: Method, table: PublicTable) -> Method:
    """The same method with a public table beside the private one; refused for methods that use none."""
    if (setting := public_setting(method)) is None:
        able = [name for name in METHODS if public_setting(METHODS[name])]
        raise UsageError(f"{method.name} uses no public table; take {' or '.join(able)}, or leave --public out")
    return replace(method, **{setting: table})  # type: ignore[type-var]


def model_of_kind(kind: str, package: str) -> type[Model]:
    """The class of the models of a kind; `package` is what registered it where the model was made."""
    broken: RegistryError | None = None
    for name in METHODS:
        try:
            models = models_of_method(name)
        except RegistryError as error:
            broken = error
            continue
        for model in models:
            if getattr(model, "kind", None) == kind:
                return model
    if broken is not None:
        raise broken
    raise RegistryError(
        f"a model of kind '{kind}' needs the package '{package}', which is not installed; if you trust it: "
        f"pip install {package}"
    )


def models_of_method(name: str) -> tuple[type[Model], ...]:
    """The classes of the models that a method makes, by the method's name."""
    models = getattr(METHODS[name], "models", ())
    return models if isinstance(models, tuple) else ()


def package_of_kind(kind: str) -> str:
    """The package that registers a kind of model."""
    for name, point in entry_points_of(GROUP).items():
        if any(getattr(model, "kind", None) == kind for model in models_of_method(name)):
            return package_of(point)
    raise RegistryError(f"no installed package registers models of kind '{kind}'")


def require_loadable(method: Method) -> None:
    """Refuse, before anything is reserved, a method whose models could not be loaded again."""
    for model in method.models:
        kind = getattr(model, "kind", None)
        try:
            known = model_of_kind(str(kind), "")
        except RegistryError:
            known = None
        if known is not model or not is_plain_name(kind):
            raise UnsupportedError(
                f"{method.name}: a release with its models ({model.__name__}, kind '{kind}') could not be loaded again; "
                "register the method by an entry point of the group dipsmith.methods and install its package"
            )

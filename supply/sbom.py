"""The bill of materials that lies in the wheel: what dipsmith needs to run, as CycloneDX.

Names, versions, hashes and who needs whom come from the lock, licences from the metadata of what is installed; a
licence once found for a version is kept, so that the file does not depend on where it was made last. It holds no time,
and its serial number is a digest of its content: the same lock gives the same bytes.

`python -m supply.sbom` (`make sbom`) writes it.
"""

import json
import tomllib
import uuid
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageMetadata, PackageNotFoundError, metadata
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from supply.lock import CONSTRAINTS, PROJECT, ROOT, RUNTIME, Pin, read_pins

from dipsmith.version import VERSION

SBOM = ROOT / "supply" / "dipsmith.cdx.json"
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, PROJECT)
_LONGEST_LICENCE = 100


def render_sbom(runtime: Iterable[Pin], locked: Iterable[Pin], licences: Mapping[tuple[str, str], str]) -> str:
    """The bill of materials as text.

    Parameters
    ----------
    runtime
        What is needed to run, and by whom.
    locked
        The same packages, and perhaps others, with their hashes.
    licences
        By name and version, where known.
    """
    hashes = {(pin.name, pin.version): pin.hashes for pin in locked}
    project = Component(
        type=ComponentType.LIBRARY,
        name=PROJECT,
        version=VERSION,
        bom_ref=f"{PROJECT}=={VERSION}",
        purl=PackageURL("pypi", name=PROJECT, version=VERSION),
        licenses=[LicenseFactory().make_from_string(_project_licence())],
    )
    parts = [(pin, _describe(pin, hashes[pin.name, pin.version], licences)) for pin in runtime]
    bom = Bom(components=[part for _, part in parts], metadata=BomMetaData(component=project))
    for parent in [project, *(part for _, part in parts)]:
        bom.register_dependency(parent, [part for pin, part in parts if parent.name in pin.parents])
    bom.metadata.timestamp = None
    bom.serial_number = _NAMESPACE
    bom.serial_number = uuid.uuid5(_NAMESPACE, _to_json(bom))
    return _to_json(bom)


def read_licences(path: Path) -> dict[tuple[str, str], str]:
    """The licences that a bill of materials names, by name and version."""
    if not path.exists():
        return {}
    found = {}
    for component in json.loads(path.read_text("utf-8"))["components"]:
        for choice in component.get("licenses", []):
            licence = choice.get("license", {})
            found[component["name"], component["version"]] = (
                choice.get("expression") or licence.get("id") or licence["name"]
            )
    return found


def find_licences(pins: Iterable[Pin]) -> dict[tuple[str, str], str]:
    """The licences of those pins that are installed here at just this version."""
    found = {}
    for pin in pins:
        try:
            about = metadata(pin.name)
        except PackageNotFoundError:
            continue
        licence = _read_licence(about)
        if about["Version"] == pin.version and licence:
            found[pin.name, pin.version] = licence
    return found


def _read_licence(about: PackageMetadata) -> str | None:
    """A licence in one line: the SPDX expression where there is one, else the author's words, else the classifier."""
    written = [about.get(field) or "" for field in ("License-Expression", "License")]
    classified = [line.rpartition(" :: ")[2] for line in about.get_all("Classifier", []) if "License :: " in line]
    for licence in [*written, *classified]:
        if licence not in ("", "UNKNOWN") and "\n" not in licence and len(licence) <= _LONGEST_LICENCE:
            return str(licence)
    return None


def _describe(pin: Pin, hashes: Iterable[str], licences: Mapping[tuple[str, str], str]) -> Component:
    licence = licences.get((pin.name, pin.version))
    return Component(
        type=ComponentType.LIBRARY,
        name=pin.name,
        version=pin.version,
        bom_ref=f"{pin.name}=={pin.version}",
        purl=PackageURL("pypi", name=pin.name, version=pin.version),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=text.removeprefix("sha256:")) for text in hashes],
        licenses=[LicenseFactory().make_from_string(licence)] if licence else [],
        properties=[Property(name="dipsmith:marker", value=pin.marker)] if pin.marker else [],
    )


def _project_licence() -> str:
    licence: str = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["license"]
    return licence


def _to_json(bom: Bom) -> str:
    return JsonV1Dot6(bom).output_as_string(indent=1) + "\n"


def main() -> None:
    """Write the bill of materials beside the lock."""
    runtime = read_pins(RUNTIME)
    licences = read_licences(SBOM) | find_licences(runtime)
    SBOM.write_text(render_sbom(runtime, read_pins(CONSTRAINTS), licences), "utf-8")


if __name__ == "__main__":
    main()

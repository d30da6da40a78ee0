"""The bill of materials: valid, complete, and exactly what the lock says."""

import json

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from supply.lock import CONSTRAINTS, RUNTIME, Pin, read_pins
from supply.sbom import SBOM, find_licences, read_licences, render_sbom

BILL = json.loads(SBOM.read_text("utf-8"))


def test_valid():
    validator = JsonStrictValidator(SchemaVersion.V1_6)
    assert validator.validate_str(SBOM.read_text("utf-8")) is None
    broken = BILL | {"components": [{"name": "no type"}]}
    assert validator.validate_str(json.dumps(broken)) is not None


def test_made_from_the_lock_that_lies_here():
    runtime = read_pins(RUNTIME)
    licences = read_licences(SBOM) | find_licences(runtime)
    assert render_sbom(runtime, read_pins(CONSTRAINTS), licences) == SBOM.read_text("utf-8"), "run `make sbom`"


def test_lists_every_package_that_runs_with_its_hashes():
    hashes = {(pin.name, pin.version): set(pin.hashes) for pin in read_pins(CONSTRAINTS)}
    listed = {
        (part["name"], part["version"]): {f"sha256:{entry['content']}" for entry in part["hashes"]}
        for part in BILL["components"]
    }
    assert listed == {(pin.name, pin.version): hashes[pin.name, pin.version] for pin in read_pins(RUNTIME)}


def test_every_package_is_reached_from_dipsmith():
    children = {entry["ref"]: entry.get("dependsOn", []) for entry in BILL["dependencies"]}
    waiting, reached = [BILL["metadata"]["component"]["bom-ref"]], set()
    while waiting:
        ref = waiting.pop()
        if ref not in reached:
            reached.add(ref)
            waiting += children[ref]
    assert reached == set(children)
    assert len(reached) == len(BILL["components"]) + 1


def test_nothing_depends_on_when_it_was_made():
    pins = [Pin("six", "1.17.0", hashes=("sha256:" + "0" * 64,), parents=("dipsmith",))]
    first, again = (render_sbom(pins, pins, {("six", "1.17.0"): "MIT"}) for _ in range(2))
    assert first == again
    assert "timestamp" not in first
    other = [Pin("six", "1.17.0", hashes=("sha256:" + "1" * 64,), parents=("dipsmith",))]
    assert json.loads(render_sbom(other, other, {}))["serialNumber"] != json.loads(first)["serialNumber"]

"""The files that a run directory has from its start."""

from pathlib import Path

from msgspec.structs import replace

from paceline.available import catalog
from paceline.plan.place import place
from paceline.spec.load import experiment, load_toml
from paceline.spec.run_options import RunSpec
from paceline.store.writer import RunWriter


def test_stored_spec_is_read_as_one_run_although_its_hosts_contain_commas(tmp_path: Path) -> None:
    plan = place(RunSpec(workload="logreg", layout="w"), catalog())
    # `local` after a comma would begin a second value if the file held plain text.
    plan = replace(plan, spec=replace(plan.spec, hosts="netns:a,local"))
    writer = RunWriter(tmp_path, "test", plan)
    writer.close()
    writer.release()
    stored = experiment(load_toml(writer.paths.spec))
    assert stored.axes == {}
    assert stored.run == plan.spec

"""The studio with a method of somebody else's package."""

from uuid import uuid4

from conftest import serve, write_people


def test_the_studio_offers_and_runs_it(plugged, tmp_path):
    write_people(tmp_path)
    running = serve(tmp_path, "--grace", "0", python=plugged)
    try:
        running.enter()
        project = running.project()
        assert "Every column by itself" in running.client.get(f"/p/{project}/plan").text
        planned = running.choose(project, method="columns", settings={"sharpen": 2})
        assert planned["cells"] > 0
        job = running.start(project, str(uuid4()))
        running.wait(project, job, "finished")
    finally:
        running.stop()

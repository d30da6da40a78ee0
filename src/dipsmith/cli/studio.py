"""`dipsmith studio`: the steward's page, on this machine only."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

from typer import Option

from dipsmith.cli.options import Json, examples
from dipsmith.cli.terminal import answer

EXAMPLES = examples("dipsmith studio", "dipsmith studio --folder work --port 8765 --no-browser")


def studio(
    folder: Annotated[
        Path, Option("--folder", help="Where data, ledger and releases lie; nothing outside is touched.")
    ] = Path(),
    ledger: Annotated[str, Option("--ledger", help="The ledger, inside the folder.")] = "budget.db",
    port: Annotated[int, Option("--port", help="The port on 127.0.0.1; 0 takes any free one.")] = 8765,
    host_name: Annotated[
        str,
        Option(
            "--host-name",
            help="random: a new name under localhost with every start. plain: 127.0.0.1, for browsers that do not know such names.",
        ),
    ] = "random",
    browser: Annotated[bool, Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    grace: Annotated[float, Option("--grace", help="Seconds in which a confirmed run can still be cancelled.")] = 5.0,
    most_upload: Annotated[float, Option("--most-upload", help="GB of the largest upload.")] = 2.0,
    json: Json = False,
) -> None:
    """Serve the steward's page: projects, schema, plan, run, release, compare. To this machine only, and one browser."""
    from dipsmith.errors import MissingExtraError, UsageError

    try:
        from dipsmith.studio.server import Studio
    except ImportError as error:
        missing = (error.name or "").split(".")[0]
        if missing in ("starlette", "uvicorn", "h11"):
            raise MissingExtraError.of("The studio", "studio") from None
        if missing == "fcntl":
            raise UsageError("the studio needs file locks of Linux or macOS; use the other commands here") from None
        raise
    from dipsmith.studio.invitation import invitation
    from dipsmith.studio.workspace import Workspace

    if not 0 <= grace <= 3600 or not 0 < most_upload <= 10_000:
        raise UsageError("--grace is 0 to 3600 seconds, --most-upload at most 10000 GB")
    if host_name not in ("random", "plain"):
        raise UsageError(f"--host-name is '{host_name[:40]}', expected random or plain")
    workspace = Workspace.of(folder, ledger, grace, int(most_upload * 1e9))
    made = Studio.on(workspace, port, plain=host_name == "plain")
    code = made.session.shown_code

    with ExitStack() as until_stopped:

        def ready() -> None:
            answer(
                json,
                {"address": made.address, "code": code, "port": made.port, "folder": str(workspace.folder)},
                f"The studio serves {workspace.folder} to this machine only. Open\n\n  {made.address}\n",
                f"and type the code, which works once:  {code}\n",
                "Stop it with Ctrl-C; jobs that run go on without it.",
            )
            if browser:
                import webbrowser
                from threading import Thread

                # The token goes into a file: whoever lists processes sees the arguments of the browser.
                file = until_stopped.enter_context(invitation(made.address, made.session.token))
                Thread(target=webbrowser.open, args=(file.as_uri(),), daemon=True).start()

        made.serve(ready)

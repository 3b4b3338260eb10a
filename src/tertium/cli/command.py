"""What every command has in common: plain help, and the old names of renamed options."""

from typing import Any

from typer.core import TyperCommand, TyperGroup

from tertium.cli.output import note

__all__ = ["Command", "Group"]

# Other names of options, by command: they work but are not shown.
RENAMED = {
    **{(name, "--condition"): "--on" for name in ("compare", "explain", "focus", "search")},
    ("search", "--k"): "--top-k",
    ("score", "--workers"): "--jobs",
    ("encode", "--workers"): "--jobs",
}


class _Plain:
    """Help without a type beside flags: that a flag takes no value goes without saying."""

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
        return parameters


class Command(_Plain, TyperCommand):
    """A command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments, with old names replaced by those of today."""
        end = args.index("--") if "--" in args else len(args)
        for at, argument in enumerate(args[:end]):
            flag, equals, value = argument.partition("=")
            args[at] = RENAMED.get((self.name or "", flag), flag) + equals + value
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run it; typer would exit without a word if it is interrupted."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            note("interrupted")
            raise


class Group(_Plain, TyperGroup):
    """A group of commands."""

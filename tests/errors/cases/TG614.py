from tests.errors.compilers import call_with_compiler

SCRIPT = """
case "$*" in *--version*) echo "cc 1.0"; exit 0;; esac
: > "$(echo "$*" | sed "s/.* -o \\([^ ]*\\).*/\\1/")"
"""


def run():
    call_with_compiler(SCRIPT)

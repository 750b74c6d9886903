from tests.errors.compilers import call_with_compiler

SCRIPT = """
case "$*" in *--version*) echo "cc 1.0"; exit 0;; esac
for argument; do case "$argument" in *.c) source=$argument;; esac; done
if grep -q tracegrad_probe "$source"; then : > "$(echo "$*" | sed "s/.* -o \\([^ ]*\\).*/\\1/")"; exit 0; fi
echo "No space left on device" >&2
exit 1
"""


def run():
    call_with_compiler(SCRIPT)

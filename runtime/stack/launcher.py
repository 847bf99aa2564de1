"""Become another program that cannot outlive its parent: `python -I -S launcher.py OPTIONS -- PROGRAM ARGS…`.

Run as a script in a fresh interpreter (standard library only, so that it starts in a few milliseconds), because code
between fork and exec of a threaded supervisor is not safe. Options, in JSON as the first argument:

    parent          pid of the supervisor
    death_signal    signal to receive when the supervisor dies (prctl PR_SET_PDEATHSIG; Linux only)
    uid, gid        optional: the user to become (Postgres refuses to run as root)
    keep_access     with uid: keep CAP_DAC_OVERRIDE, so that folders only root may enter need not be opened up for all
"""

import ctypes
import json
import os
import sys
from typing import Any

# linux/prctl.h, linux/securebits.h and linux/capability.h
_PR_SET_PDEATHSIG = 1
_PR_SET_SECUREBITS = 28
_SECBIT_NO_SETUID_FIXUP = 1 << 2
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_RAISE = 2
_CAP_DAC_OVERRIDE = 1
_CAPABILITY_VERSION_3 = 0x20080522


def _prctl(libc: ctypes.CDLL, *arguments: int) -> None:
    padded = [ctypes.c_ulong(value) for value in (*arguments, 0, 0, 0, 0, 0)][:5]
    if libc.prctl(*padded) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({arguments[0]})")


def _keep_only_dac_override(libc: ctypes.CDLL) -> None:
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    mask = 1 << _CAP_DAC_OVERRIDE
    sets = (ctypes.c_uint32 * 6)(mask, mask, mask, 0, 0, 0)  # effective, permitted, inheritable; low then high words
    if libc.capset(header, sets) != 0:
        raise OSError(ctypes.get_errno(), "capset")
    _prctl(libc, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, _CAP_DAC_OVERRIDE)


def _become_user(libc: ctypes.CDLL, uid: int, gid: int, keep_access: bool) -> None:
    if keep_access:
        # Capabilities survive the change of user, and access(2) honours them (initdb asks it about its programs).
        _prctl(libc, _PR_SET_SECUREBITS, _SECBIT_NO_SETUID_FIXUP)
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
    if keep_access:
        _keep_only_dac_override(libc)


def main(arguments: list[str]) -> None:
    options: dict[str, Any] = json.loads(arguments[0])
    command = arguments[2:]
    libc = ctypes.CDLL(None, use_errno=True)
    if "uid" in options:
        try:
            _become_user(libc, options["uid"], options["gid"], options["keep_access"])
        except OSError as error:
            # Some containers withhold what this takes; folders that everyone may enter do without keep_access.
            sys.exit(f"cannot run as user {options['uid']} (keep_access: {options['keep_access']}): {error}")
    if sys.platform == "linux":
        # After the change of user: changing credentials clears the parent-death signal.
        _prctl(libc, _PR_SET_PDEATHSIG, options["death_signal"])
    if os.getppid() != options["parent"]:
        sys.exit("the supervisor is gone")
    try:
        os.execv(command[0], command)  # noqa: S606
    except OSError as error:
        sys.exit(f"cannot run {command[0]}: {error.strerror}")


if __name__ == "__main__":
    main(sys.argv[1:])

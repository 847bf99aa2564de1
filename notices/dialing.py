"""A TCP connection to an address that its channel may have."""

import asyncio
import socket

from gateways.addresses import Address, is_private, is_public, literal
from gateways.connecting import Resolve, resolve
from notices.channel import NotDeliveredError


async def dial(host: str, port: int, *, private: bool, resolve: Resolve = resolve) -> socket.socket:
    """A connected socket, which is the caller's to close. One address that the host may not have denies it all.

    Raises NotDeliveredError. The caller bounds the time.
    """
    addresses = await _addresses(host, port, resolve)
    if not all(is_public(each) or (private and is_private(each)) for each in addresses):
        raise NotDeliveredError("egress_denied", final=True)
    loop = asyncio.get_running_loop()
    for address in addresses:
        made = socket.socket(socket.AF_INET6 if address.version == 6 else socket.AF_INET, socket.SOCK_STREAM)
        made.setblocking(False)
        try:
            await loop.sock_connect(made, (str(address), port))
        except OSError:
            made.close()
        except BaseException:
            made.close()
            raise
        else:
            return made
    raise NotDeliveredError("connect_failed")


async def _addresses(host: str, port: int, resolve: Resolve) -> list[Address]:
    own = literal(host)
    if own is not None:
        return [own]
    try:
        found = [literal(each) for each in await resolve(host, port)]
    except OSError:
        raise NotDeliveredError("connect_failed") from None
    if None in found:
        raise NotDeliveredError("egress_denied", final=True)
    return [each for each in found if each is not None]

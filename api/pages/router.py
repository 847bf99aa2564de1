"""Every page. A new one is a module of its own, a template, and its line here."""

from fastapi import APIRouter

from api.pages import (
    account,
    amending,
    approval,
    batch,
    call,
    claims,
    deadline,
    diagnostics,
    history,
    inbox,
    notices,
    openid,
    operations,
    policies,
    review,
    signin,
    signing,
    stats,
    switches,
    tools,
)

router = APIRouter()
for _page in (
    signin,
    openid,
    inbox,
    approval,
    batch,
    call,
    signing,
    account,
    amending,
    claims,
    deadline,
    history,
    stats,
    operations,
    notices,
    policies,
    switches,
    review,
    diagnostics,
    tools,
):
    router.include_router(_page.router)

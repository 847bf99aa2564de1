"""The web form for people: one module and one template a page."""

from fastapi import APIRouter

from api.pages import (
    amending,
    approval,
    batch,
    diagnostics,
    history,
    inbox,
    notices,
    openid,
    operations,
    review,
    signin,
    stats,
    switches,
)

router = APIRouter()
for _page in (
    signin,
    openid,
    inbox,
    approval,
    batch,
    amending,
    history,
    stats,
    operations,
    notices,
    switches,
    review,
    diagnostics,
):
    router.include_router(_page.router)

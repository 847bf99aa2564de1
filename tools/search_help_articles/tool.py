"""The help centre's articles. The shop's own people write them, but their words stay words: they come as such."""

from datetime import datetime
from typing import Annotated

from pydantic import Field, StringConstraints

from gateways.protocols import Systems
from schemas.base import Model
from schemas.calls import Binding
from tools.protocol import Arguments, ReadTool, Refusal
from tools.texts import PRINTABLE
from tools.untrusted import Untrusted, UntrustedText, untrusted

MAX_TEXT, MAX_TITLE = 1_500, 200


class SearchHelpArticlesArguments(Arguments):
    query: Annotated[
        str,
        StringConstraints(min_length=2, max_length=120, pattern=PRINTABLE),
        Field(description="A few words of what is looked for, e.g. return damaged item"),
    ]
    limit: Annotated[int, Field(ge=1, le=5, description="How many articles at most")] = 3


class ArticleLine(Model):
    article_id: str
    updated_at: datetime


class SearchHelpArticlesResult(Model):
    """`count` is how many articles fit in all; their titles and words are in `untrusted`, by `ref`."""

    articles: tuple[ArticleLine, ...]
    count: int
    truncated: bool
    untrusted: Untrusted | None = None


class SearchHelpArticles(ReadTool[SearchHelpArticlesArguments, SearchHelpArticlesResult]):
    name = "search_help_articles"
    arguments_model = SearchHelpArticlesArguments
    result_model = SearchHelpArticlesResult

    async def read(
        self, arguments: SearchHelpArticlesArguments, binding: Binding, systems: Systems
    ) -> SearchHelpArticlesResult | Refusal:
        found, count = await systems.helpdesk.articles(arguments.query, arguments.limit)
        texts = [UntrustedText(ref=each.article_id, title=each.title[:MAX_TITLE], text=each.body) for each in found]
        return SearchHelpArticlesResult(
            articles=tuple(ArticleLine(article_id=each.article_id, updated_at=each.updated_at) for each in found),
            count=count,
            truncated=len(found) < count,
            untrusted=untrusted("help_center", texts, MAX_TEXT),
        )

    def is_empty(self, result: SearchHelpArticlesResult) -> bool:
        return not result.articles

    def done(self, arguments: SearchHelpArticlesArguments, result: SearchHelpArticlesResult | None) -> str:
        if result is None or not result.articles:
            return "no help articles that fit"
        return f"{len(result.articles)} of {result.count} help articles that fit"


TOOL = SearchHelpArticles()

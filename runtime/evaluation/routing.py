"""From what a customer wrote to the tool that serves it: a baseline by words alone, and how often a choice is right."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from runtime.evaluation.slices import Request

_WORD = re.compile(r"[a-z]{3,}")
# Where a description says what the tool is not for, and what to use instead.
_NEGATIVE = re.compile(r"(do not|it does not|it never|it cannot|never)\b.*?(\.|$)", re.IGNORECASE | re.DOTALL)


def words(text: str) -> Counter[str]:
    """The words of a text, without endings that say how often or when."""
    return Counter(_stem(each) for each in _WORD.findall(text.casefold()))


def _stem(word: str) -> str:
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word.removesuffix(ending)
    return word


def lexical(says: str, descriptions: Mapping[str, str]) -> str:
    """Pure. The tool whose name and description share the rarest words with what was said (TF-IDF, cosine); the first
    by name where several do alike. What a description says it is not for does not count."""
    ordered = sorted(descriptions.items())
    documents = {name: words(f"{name.replace('_', ' ')} {_NEGATIVE.sub(' ', text)}") for name, text in ordered}
    spread = Counter(word for each in documents.values() for word in each)
    weight = {word: math.log(1 + len(documents) / count) for word, count in spread.items()}
    asked = words(says)

    def likeness(name: str) -> float:
        document = documents[name]
        length = math.sqrt(sum((count * weight[word]) ** 2 for word, count in document.items())) or 1.0
        return sum(asked[word] * document[word] * weight[word] ** 2 for word in asked if word in document) / length

    return max(documents, key=likeness)


def accuracy(requests: Sequence[Request], choices: Sequence[str]) -> float:
    """Pure. The share of requests for which the right tool was chosen; 1 for none."""
    right = sum(request.tool == choice for request, choice in zip(requests, choices, strict=True))
    return right / len(requests) if requests else 1.0

"""The bounds of a page of a list."""

from app.http.api.call import Services

PAGE_V2_MAX = 500
"""The longest page of a list of HTTP v2; a longer one is refused."""


def page_size(asked: int, services: Services) -> int:
    """The entries of a page; a longer one than this node gives is cut to that, and its neighbours with it.

    Not refused: clients ask for 2,147,483,647 to get all in one, and most lists are shorter than any bound. The answer
    tells the true count, and further pages of the same size have the rest.
    """
    return services.addresses.stats.cut_page(asked, services.settings.limits.page_size)

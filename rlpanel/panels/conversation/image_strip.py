"""Row of the images of a sample, for views that show its texts."""

from __future__ import annotations

from collections.abc import Iterator

import panel as pn
import param

from rlpanel.errors import RLPanelError
from rlpanel.panels.language.labels import tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.region import Html
from rlpanel.panels.ui.safe_image import FULL, THUMBNAIL, BadImage, image_url
from rlpanel.panels.ui.theme import safe_text
from rlpanel.schema import Sample
from rlpanel.sources.records.embedded_media import Image
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.sample_media import image_bytes
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.texts.shorten import shorten

#: Most images of a row, and the longest side of one in pixels.
MAX_IMAGES, _MAX_SIDE = 24, 160


def images_of(sample: Sample, *, given: bool = False) -> list[Image]:
    """Return the images of a sample in order: logged beside the messages, and in them.

    Parameters
    ----------
    given : bool
        Whether only those of the prompt are wanted, which the samples of a group share.
    """
    messages = sample.messages[: max(sample.prompt_messages, 0)] if given else sample.messages
    return [*sample.images, *(image for message in messages for image in message.get("images", ()))]


def image_address(
    index: RunIndex, snapshot: Snapshot, uid: str, image: Image, *, longest: int = THUMBNAIL
) -> str:
    """Return an image of a sample as a data URL, or the reason why it cannot be shown."""
    try:
        return image_url(image_bytes(index, snapshot, uid, image), longest=longest)
    except (RLPanelError, BadImage) as error:
        return str(error)


def find_image(index: RunIndex, snapshot: Snapshot, uid: str, image: Image, *, full: bool) -> Iterator[str]:
    """Yield an image as a thumbnail or in full size, for a task on a thread."""
    yield image_address(index, snapshot, uid, image, longest=FULL if full else THUMBNAIL)


class ImageStrip(pn.viewable.Viewer):
    """A row of named thumbnails of a sample's images; hidden for a sample without any.

    Parameters
    ----------
    context : Context
    **params
    """

    sample = param.ClassSelector(class_=Sample, allow_None=True, doc="Sample whose images are shown.")
    given = param.Boolean(default=False, doc="Whether only the images of the prompt are shown.")

    def __init__(self, context: Context, **params: object) -> None:
        super().__init__(**params)
        self._context = context
        self._pane = Html(
            stylesheets=[read_assets("panels/conversation/image_strip.css")],
            sizing_mode="stretch_width",
            margin=(2, 14),
            css_classes=["rl-images"],
            visible=False,
        )
        self._task: BackgroundTask[str] = BackgroundTask(self._show, context.threads.views)
        self.param.watch(self._draw, ["sample", "given"])
        self._draw()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._pane

    def _draw(self, *_: object) -> None:
        index, sample = self._context.index, self.sample
        images = images_of(sample, given=self.given) if sample is not None else []
        self._pane.param.update(visible=bool(images), html=_strip(images, []))
        if images and index is not None and sample is not None:
            self._task.start(_thumbnails(index, self._context.snapshot, sample.uid, images))

    def _show(self, html: str) -> None:
        self._pane.html = html


def _thumbnails(index: RunIndex, snapshot: Snapshot, uid: str, images: list[Image]) -> Iterator[str]:
    shown = images[:MAX_IMAGES]
    yield _strip(images, [image_address(index, snapshot, uid, image, longest=_MAX_SIDE) for image in shown])


def _strip(images: list[Image], addresses: list[str]) -> str:
    """Return the row as HTML; what is not an address of ours is shown as the reason in its words."""
    figures = []
    for number, image in enumerate(images[:MAX_IMAGES]):
        name = tr("image {number}", number=number + 1)
        place = shorten(image.get("url", "").rpartition("/")[2] or image.get("media_type", ""), 40)
        caption = safe_text(" · ".join(part for part in (name, place) if part))
        address = addresses[number] if number < len(addresses) else ""
        if address.startswith("data:image/"):
            picture = f'<img alt="{caption}" src="{safe_text(address)}">'
        else:
            picture = f"<div>{safe_text(address or '…')}</div>"
        figures.append(f'<figure title="{caption}">{picture}<figcaption>{caption}</figcaption></figure>')
    if len(images) > MAX_IMAGES:
        more = tr("{count} more in the conversation", count=len(images) - MAX_IMAGES)
        figures.append(f"<figure>{safe_text(more)}</figure>")
    return f'<div class="strip">{"".join(figures)}</div>'

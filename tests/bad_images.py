"""Images as real folders have them: odd ones that can be read, and files that cannot."""

import io
import struct
import zlib

import numpy as np
from PIL import Image

ORIENTATION = 0x0112


def picture(height=48, width=64, seed=0):
    """(h, w, 3) uint8: smooth, so that JPEG changes little, and unlike itself when turned."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0 : 1 : height * 1j, 0 : 1 : width * 1j][:, :, :, None]
    a, b, c, d = rng.uniform(0.5, 3, (4, 1, 1, 3))
    values = 128 + 60 * np.sin(a * x + b * y) + 60 * np.cos(c * x * y + d * x)
    return np.clip(values, 0, 255).astype(np.uint8)


def stored(image, orientation):
    """What a camera stores that was held so that EXIF has to say `orientation`."""
    return {
        1: image,
        2: image[:, ::-1],
        3: image[::-1, ::-1],
        4: image[::-1],
        5: image.transpose(1, 0, 2),
        6: np.rot90(image, 1),
        7: image[::-1, ::-1].transpose(1, 0, 2),
        8: np.rot90(image, -1),
    }[orientation]


def exif(orientation):
    tags = Image.Exif()
    tags[ORIENTATION] = orientation
    return tags


def encoded(image, kind, **options):
    content = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(image)).save(content, kind, **options)
    return content.getvalue()


def png_that_claims(width, height):
    """A PNG file of a few bytes; its header promises this many pixels."""

    def chunk(name, data):
        checked = name + data
        return struct.pack(">I", len(data)) + checked + struct.pack(">I", zlib.crc32(checked))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = zlib.compress(b"\0" * 64)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
    )


def jpeg_that_claims(width, height, progressive=False):
    """A JPEG file of a small picture, whose header promises this many pixels."""
    content = bytearray(encoded(picture(), "JPEG", progressive=progressive))
    frame = content.index(b"\xff\xc2" if progressive else b"\xff\xc0")
    content[frame + 5 : frame + 9] = struct.pack(">HH", height, width)
    return bytes(content)


def palette_with_transparency(image):
    """A palette image whose left half is transparent, and what is seen on white."""
    indexed = Image.fromarray(image).quantize(255, dither=Image.Dither.NONE)
    codes = np.array(indexed)
    codes[:, : image.shape[1] // 2] = 255
    made = Image.fromarray(codes)
    made.putpalette([*indexed.getpalette()[: 3 * 255], 10, 20, 30])
    colours = np.array(made.getpalette(), np.uint8).reshape(-1, 3)
    colours[255] = 255
    content = io.BytesIO()
    made.save(content, "PNG", transparency=255)
    return content.getvalue(), colours[codes]


def _animated(kind):
    frames = [Image.fromarray(picture(seed=seed)) for seed in range(3)]
    content = io.BytesIO()
    options = {"lossless": True} if kind == "WEBP" else {}
    frames[0].save(content, kind, save_all=True, append_images=frames[1:], **options)
    return content.getvalue()


def _cmyk():
    content = io.BytesIO()
    Image.fromarray(picture()).convert("CMYK").save(content, "JPEG", quality=95)
    return content.getvalue()


def _translucent():
    alpha = np.full((48, 64, 1), 128, np.uint8)
    return encoded(np.concatenate([picture(), alpha], axis=2), "PNG")


def _grey16():
    return picture()[:, :, 0].astype(np.uint16) * 256 + 77


def odd_images():
    """Name -> (content, what it shows, how much a value may differ)."""
    image = picture()
    grey = np.repeat(image[:, :, :1], 3, axis=2)
    seen, transparent = palette_with_transparency(image)[::-1]
    half = ((image * 128.0 + 255 * 127) / 255).astype(np.uint8)
    indexed = Image.fromarray(image).quantize(64)
    content = io.BytesIO()
    indexed.save(content, "GIF")
    return {
        "plain.jpg": (encoded(image, "JPEG", quality=95), image, 12),
        "progressive.jpg": (encoded(image, "JPEG", quality=95, progressive=True), image, 12),
        "cmyk.jpg": (_cmyk(), image, 12),
        "grey.jpg": (encoded(image[:, :, 0], "JPEG", quality=95), grey, 6),
        "palette.gif": (content.getvalue(), np.array(indexed.convert("RGB")), 0),
        "transparent.png": (transparent, seen, 0),
        "translucent.png": (_translucent(), half, 1),
        "grey16.png": (encoded(_grey16(), "PNG"), grey, 0),
        "grey16.tif": (encoded(_grey16(), "TIFF"), grey, 0),
        "two colours.png": (
            encoded(image[:, :, 0] > 128, "PNG"),
            np.repeat(np.where(image[:, :, :1] > 128, 255, 0), 3, axis=2),
            0,
        ),
        "animated.gif": (_animated("GIF"), image, 40),  # of 256 colours
        "animated.webp": (_animated("WEBP"), image, 0),
        "animated.png": (_animated("PNG"), image, 0),
        "turned.jpg": (encoded(stored(image, 6), "JPEG", quality=95, exif=exif(6)), image, 12),
        "turned.tif": (encoded(stored(image, 6), "TIFF", exif=exif(6)), image, 0),
        "one pixel.png": (encoded(image[:1, :1], "PNG"), image[:1, :1], 0),
        "wide.png": (encoded(picture(2, 20_000), "PNG"), picture(2, 20_000), 0),
        "a png.jpg": (encoded(image, "PNG"), image, 0),
        "no suffix": (encoded(image, "BMP"), image, 0),
        "metadata.jpg": (
            encoded(image, "JPEG", quality=95, exif=b"Exif\0\0II*\0\xff\xff\xff\xff"),
            image,
            12,
        ),
    }


def bad_files():
    """Name -> (content, why it cannot be used)."""
    image = picture()
    jpeg, png = encoded(image, "JPEG"), encoded(image, "PNG")
    return {
        "empty.jpg": (b"", "empty file"),
        "half.jpg": (jpeg[: 9 * len(jpeg) // 10], "truncated"),
        "half.png": (png[: len(png) // 2], "truncated"),
        "half.gif": (encoded(image, "GIF")[:900], "truncated"),
        "head.jpg": (jpeg[:10], "damaged"),
        "head.png": (png[:10], "damaged"),
        "text.jpg": (b"not a photograph at all\n" * 9, "not an image"),
        "page.html": (b"<html><body>404</body></html>", "not an image"),
        "floats.tif": (encoded(image[:, :, 0].astype(np.float32), "TIFF"), "32-bit values"),
        "bomb.png": (png_that_claims(20_000, 20_000), "too many pixels"),
        "large.png": (png_that_claims(10_000, 10_000), "too many pixels"),
        "bomb.jpg": (jpeg_that_claims(65_000, 65_000), "too many pixels"),
        "slow bomb.jpg": (jpeg_that_claims(20_000, 20_000, progressive=True), "too many pixels"),
    }

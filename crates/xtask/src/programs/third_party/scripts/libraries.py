"""Puts a wheel's libraries beside its Python, which pip leaves out of a folder: libraries.py FOLDER PIP-OPTIONS..."""

import glob
import os
import subprocess
import sys
import tempfile
import zipfile

FOLDER, *OPTIONS = sys.argv[1:]

with tempfile.TemporaryDirectory() as place:
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", place]
    subprocess.run(download + OPTIONS, check=True)
    [wheel] = glob.glob(f"{place}/*.whl")
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            path = name.partition(".data/data/")[2]
            if path.startswith("lib/") and not path.endswith("/"):
                target = os.path.join(FOLDER, path)
                os.makedirs(os.path.dirname(target), exist_ok=True)
                with open(target, "wb") as file:
                    file.write(archive.read(name))

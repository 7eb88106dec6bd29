"""Models, pages, and the library of operators."""

from PyInstaller.utils.hooks import collect_data_files, collect_dynamic_libs

datas = collect_data_files("molspec")
binaries = collect_dynamic_libs("molspec", search_patterns=["*.so"])

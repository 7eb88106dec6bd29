"""The model interfaces of planning tools, implemented by molspec; each module needs its tool.

`syntheseus`: models, and its command lines. `aizynthfinder`: an expansion strategy and a filter.
"""

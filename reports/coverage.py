def coverage_page(exploration, coverage, result): return ""

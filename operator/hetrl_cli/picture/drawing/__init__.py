"""The drawing of a plan: layout on the sheet, shapes, and output as SVG or PNG."""

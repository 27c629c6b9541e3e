"""The attention engine: documents read once as blocks, queries read over them, rows of chosen heads kept."""

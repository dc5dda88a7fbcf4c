"""The form that maps the keys of unknown files to fields, with a preview of the first samples."""

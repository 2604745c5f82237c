"""Rules over fields, keyed lists, YAML parsing, and errors in the words of the API."""

"""The weight stream: serving, fetching, patches, and relays between regions."""

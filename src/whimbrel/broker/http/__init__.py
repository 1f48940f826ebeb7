"""The broker over HTTP: a pure ASGI application."""

"""The broker over HTTP: a pure ASGI application. A module of endpoints declares its `OPERATIONS`.

app                               all operations as one application
guard                             what a request must pass first: size, host and origin, token, rate
request_log                       ids of requests, and the access log
exchange                          bodies in, answers out
operation, openapi                what an operation is; the OpenAPI document and the page made of them
publish, messages, socket         events in; pulls and streams out, over HTTP and WebSocket
subscriptions, filters            subscriptions, and questions about filters
publications, spaces              publications and subject spaces
webhooks, tokens, schema, backup  what their names say
matches, overlay                  what engines and peers elsewhere need
page, health                      the live page; whether the broker works
"""

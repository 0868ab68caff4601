//! The verbs engine: objects, requester, responder, completer, saved state

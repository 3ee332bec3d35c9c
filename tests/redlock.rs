//! Redlock passes every case of what it offers, and its own. Needs the servers of `docker/up`.

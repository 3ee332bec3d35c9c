//! Databases of several servers, which survive the loss of one server. Each test starts its own
//! servers, from the images of `docker/up`.

mod beside;
mod galera;
mod mysql;
mod pair;
mod postgres;
mod promotion;
mod redis;
mod redis_cluster;
mod sentinel;

//! Databases of several servers, of which one goes on when another one is lost: each test has
//! servers of its own, of the images of `docker/up`.

// Of what there is for the other tests, these use a part.
mod beside;
mod galera;
mod mysql;
mod pair;
mod postgres;
mod promotion;
mod redis;
mod redis_cluster;
mod sentinel;

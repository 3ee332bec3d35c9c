//! The seam to the machine's randomness.

/// A number from 0 to 1, which is not among them.
pub(crate) fn fraction() -> f64 {
    fastrand::f64()
}

/// A number from 0 to `below`, which is not among them.
#[cfg(feature = "etcd")]
pub(crate) fn below(below: usize) -> usize {
    fastrand::usize(..below)
}

/// A number that nobody else has drawn, as good as certainly.
#[allow(dead_code)] // Without a store that wants one.
pub(crate) fn id() -> i64 {
    // Of the system: a fork copies the state of any other source.
    let [first, ..] = bits().map(i64::from);
    let rest = bits().into_iter().fold(first, |id, byte| (id << 8) | i64::from(byte));
    (rest & i64::MAX).max(1)
}

/// 128 bits that nobody can guess.
pub(crate) fn bits() -> [u8; 16] {
    uuid::Uuid::new_v4().into_bytes()
}

#[cfg(all(test, unix, feature = "redis"))]
mod tests {
    use std::{fs, process};

    use distlock_fork::Fork;

    use super::*;

    #[test]
    fn a_forked_child_draws_other_ids() {
        let told = std::env::temp_dir().join(format!("distlock-ids-{:x}", id()));
        // The state of this thread's generator is copied.
        assert!(fraction() < 1.0);
        match distlock_fork::split().unwrap() {
            Fork::Child => {
                let written = fs::write(&told, id().to_string());
                process::exit(i32::from(written.is_err()));
            }
            Fork::Parent(child) => {
                let own = id();
                assert!(distlock_fork::has_ended(child, true).unwrap());
                let childs = fs::read_to_string(&told).unwrap();
                fs::remove_file(told).unwrap();
                assert_ne!(childs, own.to_string());
            }
        }
    }
}

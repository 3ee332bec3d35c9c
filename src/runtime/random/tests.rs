use std::{fs, process};

use distlock_fork::Fork;

use super::*;

#[test]
fn a_forked_child_draws_other_ids() {
    let file = std::env::temp_dir().join(format!("distlock-ids-{:x}", id()));
    // The state of this thread's generator is copied.
    assert!(fraction() < 1.0);
    match distlock_fork::split().unwrap() {
        Fork::Child => {
            let written = fs::write(&file, id().to_string());
            process::exit(i32::from(written.is_err()));
        }
        Fork::Parent(child) => {
            let own = id();
            assert!(distlock_fork::has_ended(child, true).unwrap());
            let childs = fs::read_to_string(&file).unwrap();
            fs::remove_file(file).unwrap();
            assert_ne!(childs, own.to_string());
        }
    }
}

//! `sqlx::migrate!` notices an edited migration by itself, but not a new one.

fn main() {
    println!("cargo:rerun-if-changed=../../migrations");
}

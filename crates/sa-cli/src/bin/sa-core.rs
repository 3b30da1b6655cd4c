//! `sa-core COMMAND …`, as the specification types it: becomes the one of the four binaries that knows the command.

use std::{
    env,
    ffi::OsStr,
    io::{ErrorKind, Write},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Command, ExitCode},
};

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    // The first word that is no flag decides, and no later one: a prompt may well be "serve".
    let command = arguments.iter().find(|argument| !argument.as_encoded_bytes().starts_with(b"-"));
    let binary = command.and_then(|command| home_of(command)).unwrap_or("sa-cli");
    let program = beside_this(binary).unwrap_or_else(|| PathBuf::from(binary));
    // Only a failure comes back: otherwise this process is that program now, with its signals and its exit code.
    let error = Command::new(program).args(arguments).exec();
    let remedy = "install it beside sa-core, or put its folder on PATH";
    let _ = writeln!(std::io::stderr(), "sa-core: {binary} cannot be run\n  why: {error}\n  do : {remedy}");
    // As shells have it: 127 for a program that is not there, 126 for one that does not run.
    ExitCode::from(if error.kind() == ErrorKind::NotFound { 127 } else { 126 })
}

fn home_of(word: &OsStr) -> Option<&'static str> {
    match word.to_str()? {
        "run-worker" => Some("sa-worker"),
        "reclaim-stuck-jobs" => Some("sa-reaper"),
        "serve" => Some("sa-api"),
        _ => None,
    }
}

fn beside_this(binary: &str) -> Option<PathBuf> {
    let sibling = env::current_exe().ok()?.with_file_name(binary);
    sibling.is_file().then_some(sibling)
}

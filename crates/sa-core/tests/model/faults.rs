//! Each guard is needed.

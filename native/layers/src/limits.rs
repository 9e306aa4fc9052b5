/// What one reading may cost. Everything else is bounded by constants: buffers of a stated size, a window for zstd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one layer's tar once decompressed. Headers cannot be reached but through the data before them, so a bomb costs time.
    pub tar_bytes: u64,
    /// Bytes of one PAX header, one GNU long name, or all global PAX records together.
    pub record_bytes: usize,
    /// Bytes of one path once symbolic links are resolved.
    pub path_bytes: usize,
    /// Memory for the paths, link targets and records that are remembered between members.
    pub held_bytes: usize,
    /// Bytes of all paths that are not root's, written out.
    pub reported_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            tar_bytes: 256 << 30,
            record_bytes: 1 << 20,
            path_bytes: 1 << 16,
            held_bytes: 512 << 20,
            reported_bytes: 256 << 20,
        }
    }
}

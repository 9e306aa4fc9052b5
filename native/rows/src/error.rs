/// What a kernel refuses.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RowsError {
    #[error("{column}: {got} entries where {expected} are expected")]
    Length { column: &'static str, got: usize, expected: usize },

    #[error("offsets[{index}] is {got}: {rule}")]
    Offsets { index: usize, got: i64, rule: &'static str },

    #[error("{column}[{index}] is {got}: {rule}")]
    Value { column: &'static str, index: usize, got: String, rule: &'static str },

    #[error("{rule}")]
    Rule { rule: &'static str },

    #[error("{place}.{fault}")]
    Within { place: String, fault: Box<RowsError> },
}

impl RowsError {
    pub(crate) fn value(column: &'static str, index: usize, got: impl ToString, rule: &'static str) -> Self {
        Self::Value { column, index, got: got.to_string(), rule }
    }

    /// The same, of one among several inputs.
    pub fn within(self, place: String) -> Self {
        Self::Within { place, fault: Box::new(self) }
    }

    /// True where the fault is in the shape of the buffers rather than in what they hold.
    pub fn is_shape(&self) -> bool {
        match self {
            Self::Length { .. } | Self::Offsets { .. } => true,
            Self::Within { fault, .. } => fault.is_shape(),
            Self::Value { .. } | Self::Rule { .. } => false,
        }
    }
}

/// Refuses a column of another length.
pub(crate) fn check_length(column: &'static str, got: usize, expected: usize) -> Result<(), RowsError> {
    if got == expected {
        Ok(())
    } else {
        Err(RowsError::Length { column, got, expected })
    }
}

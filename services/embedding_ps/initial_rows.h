#pragma once

#include "services/embedding_ps/row_loader.h"
#include "simurgh/base/status.h"

namespace simurgh {

// Puts the rows of the files tables.N.initial_rows into a server that begins a new training: those
// whose ids it owns. Their optimizer state is that of new rows, see Table::PutInitialRows().
//
// Requires tables without rows. After an error some rows are there: the server must not be used.
// Errors: INVALID_ARGUMENT for a file that does not fit the table, naming table, file, tensor and
// both shapes; of TensorFileReader and Table::PutInitialRows, naming the file.
Status LoadInitialRows(const RowTarget& target, LoadProgress progress);

}  // namespace simurgh

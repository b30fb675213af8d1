#pragma once

#include <cstddef>

#include "nn/cuda/float16.h"
#include "nn/cuda/matrix.h"
#include "nn/cuda/reduction_kernels.h"

// Functions of a cell: float operator()(row, column, input values...) const, with one or two
// inputs.
namespace simurgh::cuda {

template <typename T, typename Function, size_t kInputs>
struct CellMap {
  Function function;
  Matrix<const T> inputs[kInputs];

  template <size_t N>
  bool Packs() const {
    bool packs = true;
    for (const Matrix<const T>& input : inputs) packs = packs && input.template Packs<N>();
    return packs;
  }

  template <size_t N>
  SIMURGH_HOST_DEVICE Pack<float, N> Of(size_t row, size_t column) const {
    Pack<T, N> values[kInputs];
    for (size_t i = 0; i < kInputs; ++i) values[i] = inputs[i].template Load<N>(row, column);
    Pack<float, N> results;
    for (size_t k = 0; k < N; ++k) {
      if constexpr (kInputs == 1) {
        results[k] = function(row, column + k, ToFloat(values[0][k]));
      } else {
        results[k] = function(row, column + k, ToFloat(values[0][k]), ToFloat(values[1][k]));
      }
    }
    return results;
  }
};

// output(r, c) = the function there.
template <typename T, typename Function, size_t kInputs>
struct MapCell {
  static constexpr size_t kPack = kPackOf<T>;

  CellMap<T, Function, kInputs> map;
  Matrix<T> output;

  bool Packs() const { return map.template Packs<kPack>() && AllPack<kPack>(output); }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t row, size_t column) const {
    const Pack<float, N> results = map.template Of<N>(row, column);
    Pack<T, N> y;
    for (size_t k = 0; k < N; ++k) Assign(y[k], results[k]);
    output.template Store<N>(row, column, y);
  }
};

// The function as a term of SumColumns.
template <typename T, typename Function, size_t kInputs>
struct MapTerm {
  static constexpr size_t kPack = kSumPack<T>;

  CellMap<T, Function, kInputs> map;

  bool Packs() const { return map.template Packs<kPack>(); }

  template <size_t N>
  SIMURGH_HOST_DEVICE Pack<float, N> Of(size_t row, size_t column) const {
    return map.template Of<N>(row, column);
  }
};

template <typename Executor, typename T, typename Function, typename... In>
void MapCells(Executor& executor, const Matrix<T>& output, const Function& function,
              const In&... inputs) {
  executor.ForEachCell(output.rows, output.columns,
                       MapCell<T, Function, sizeof...(In)>{{function, {inputs...}}, output});
}

// Sums the function over each column.
template <typename Executor, typename T, typename Function, typename... In>
void SumMap(Executor& executor, const ColumnScratch& scratch, const ColumnSums& to,
            const Function& function, const Matrix<const T>& first, const In&... others) {
  SumColumns(executor, MapTerm<T, Function, 1 + sizeof...(In)>{{function, {first, others...}}},
             first.rows, scratch, to);
}

// Rows of a batch: all of them.
struct AllRows {
  SIMURGH_HOST_DEVICE static bool Has(size_t /*row*/) { return true; }
};

// The function in rows that Rows has, else 0.
template <typename Rows, typename Function>
struct WhereHas {
  Rows rows;
  Function function;

  template <typename... X>
  SIMURGH_HOST_DEVICE float operator()(size_t row, size_t column, X... x) const {
    return rows.Has(row) ? function(row, column, x...) : 0.0F;
  }
};

// The value itself.
struct Itself {
  SIMURGH_HOST_DEVICE float operator()(size_t /*row*/, size_t /*column*/, float x) const {
    return x;
  }
};

}  // namespace simurgh::cuda

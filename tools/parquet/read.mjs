// Prints the rows of a Parquet file as JSON, as hyparquet reads them: node tools/parquet/read.mjs FILE
import { asyncBufferFromFile, parquetReadObjects, parquetSchema, parquetMetadataAsync } from 'hyparquet'

const file = await asyncBufferFromFile(process.argv[2])
const metadata = await parquetMetadataAsync(file)
const columns = parquetSchema(metadata).children.map(c => c.element.name)
const rows = await parquetReadObjects({ file, metadata })
const plain = (_, v) => typeof v === 'bigint' ? v.toString() : v
process.stdout.write(JSON.stringify({ columns, groups: metadata.row_groups.length, rows: rows.map(r => columns.map(c => r[c])) }, plain))
